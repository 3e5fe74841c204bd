"""Conversations and texts into linked notes: pure deciders, a folder of files, and one driver."""
