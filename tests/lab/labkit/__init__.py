"""The lab: hosts that this machine boots itself, for tests and for the demo. Nothing here is shipped."""
