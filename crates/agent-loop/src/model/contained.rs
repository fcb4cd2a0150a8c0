//! A model whose panics are errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::stream::{self, BoxStream, StreamExt as _};
use session_core::event::{StreamChunk, TurnError};
use tokio_util::sync::CancellationToken;

use super::{Model, ModelError, ModelRequest};

/// The model's stream; a panic in it, or in the call that makes it, is its last item.
pub(crate) fn stream(
    model: &dyn Model,
    request: ModelRequest,
    cancel: CancellationToken,
) -> BoxStream<'static, Result<StreamChunk, ModelError>> {
    let open = AssertUnwindSafe(|| model.stream(request, cancel));
    match catch_unwind(open) {
        Ok(stream) => AssertUnwindSafe(stream)
            .catch_unwind()
            .map(|item| item.unwrap_or_else(|_| Err(panicked())))
            .boxed(),
        Err(_) => stream::iter([Err(panicked())]).boxed(),
    }
}

fn panicked() -> ModelError {
    TurnError::coded("MODEL_PANIC", "the model failed unexpectedly").into()
}
