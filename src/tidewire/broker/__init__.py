"""The broker machine: what happened goes in, what to do comes out. No clock, socket, file or chance inside."""
