//! Clients of other makers against the program: what each of them sees, and what the agent wrote.

mod acpx;
mod driver;
mod python;
mod script;
mod sdk;
mod told;
mod typescript;
mod wire;
