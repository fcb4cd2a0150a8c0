//! acp-adapter
