//! The bus's rules: an exhaustive model of small cases, properties of the parts that the model and
//! the bus share, and what a real PostgreSQL says to what the model takes for granted.

mod carry;
mod cursor;
mod database;
mod landing;
mod lanes;
mod model;
mod story;
