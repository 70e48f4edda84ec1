"""The data cluster: events become rows of tables. The only room that loads Spark; it runs in a process of its own."""
