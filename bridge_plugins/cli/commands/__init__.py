"""The commands of ``bridge-audit``, one a file. What a command needs beside typer it imports when it runs."""
