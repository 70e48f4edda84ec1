"""The client session machine: what an application wants goes in, what to send and to hand over comes out. Pure."""
