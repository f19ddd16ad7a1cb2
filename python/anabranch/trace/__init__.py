"""What ran when: a trace, and the page that shows it."""
