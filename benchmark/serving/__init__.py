"""Cases that serve requests as a server gets them."""
