"""The front door for everything that does not speak the wire protocol: HTTP, WebSocket, CloudEvents, the web page."""
