"""What is measured: a folder for each benchmark, in it a family of lines a file."""
