//! What is taken for a request, and what is not.
