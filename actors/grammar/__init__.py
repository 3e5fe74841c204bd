"""What an answer may consist of, from a client's schemas to one grammar. Pure: no engine here."""
