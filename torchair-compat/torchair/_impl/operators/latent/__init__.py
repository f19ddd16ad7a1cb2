"""Before latent attention: queries, and the new rows of the two caches of keys."""
