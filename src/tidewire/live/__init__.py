"""The live driver: asyncio, real sockets, real time. It acts; the machines decide."""
