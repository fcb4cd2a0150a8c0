//! todo-tool
