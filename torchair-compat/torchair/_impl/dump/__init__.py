"""What is written for people: graphs, values, tables, logs."""
