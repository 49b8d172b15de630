//! The interceptor.
