//! The report as an HTML page, in a browser: what it shows, what it does, and what it must not do.

mod browser;
mod compare;
mod first_screen;
mod hang;
mod hostile;
mod keyboard;
mod links;
mod modules;
mod numbers;
mod pages;
mod pictures;
mod policy;
mod rerun;
mod tab;
mod theme;
mod timeline;
mod views;
