"""The command `trunkline`: a thin face. It shows and asks; what happens is decided elsewhere."""
