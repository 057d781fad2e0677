"""The client, as it is written. The twin under ``trunkline.client.sync`` is generated from it."""
