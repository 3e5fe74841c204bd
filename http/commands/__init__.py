"""The commands of `headrace`, a file each. What a command needs is imported when it runs."""
