mod calls;
mod files;
mod poison;
mod random;
mod slow;
mod world;
