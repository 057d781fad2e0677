"""What Trunkline is measured against."""
