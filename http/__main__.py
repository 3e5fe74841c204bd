"""`python -m headrace.http` is the command line under another name."""

from headrace.http.cli import main

main(prog_name="headrace")
