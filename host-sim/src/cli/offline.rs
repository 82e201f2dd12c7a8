//! The model of a host that was given no other: one name is known, and a wrong one says what there is.

use async_trait::async_trait;

use crate::model::Completion;
use crate::model::Description;
use crate::model::Model;
use crate::model::ModelError;
use crate::model::ModelRequest;
use crate::model::offline::OfflineModel;

/// The name of the offline model in settings.
pub const NAME: &str = "offline";

/// The offline model under its one name.
pub struct Offline(pub OfflineModel);

impl Offline {
    fn check(name: &str) -> Result<(), ModelError> {
        if name == NAME {
            return Ok(());
        }
        Err(ModelError::Invalid(format!("there is no model {name:?} here; known is {NAME:?}, or give a --script")))
    }
}

#[async_trait]
impl Model for Offline {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        Self::check(name)?;
        self.0.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        Self::check(&request.model)?;
        self.0.start(request).await
    }
}
