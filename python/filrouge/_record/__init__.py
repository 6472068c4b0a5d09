"""Records what applications ask models, at the HTTP transport of their clients."""
