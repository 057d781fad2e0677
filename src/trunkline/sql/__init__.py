"""The database's own code, as it is installed: migrations, and one function a file in a folder per noun."""
