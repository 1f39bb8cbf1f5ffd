//! The facts `transfer.*`.
