//! How a replica goes on whose group has lost a majority for good.

use std::path::Path;

use crate::engine::{EngineDisk, EngineOptions};
use crate::error::{LogError, Result};
use crate::fence::Identity;
use crate::log::{gather, Log, LogOptions};

/// Makes a replica the only member of all groups of its log, which no site has open. What others have
/// acknowledged and this log lacks is lost. All groups change in one write; it may be repeated. Changes
/// nothing if the replica does not vote in some group: then it may lack the data of that one.
pub fn be_alone(directory: &Path, identity: Identity) -> Result<()> {
    let place = directory.display();
    if !directory.join("identity").exists() {
        return Err(LogError::Refused(format!("{place}: there is no log of a replica")));
    }
    let disk = EngineDisk::open(directory, &identity, &EngineOptions::default())?;
    let (mut log, mut groups) = Log::open(disk, identity, &LogOptions::default())?;
    for group in &groups {
        if !group.conf().0.voters.contains(&identity.replica) {
            return Err(LogError::Refused(format!(
                "{place}: the replica does not vote in group {}, so it may lack what others had. Take \
                 the directory of another site",
                group.id()
            )));
        }
    }
    for group in &mut groups {
        group.be_alone(identity.replica);
    }
    log.write(&gather(groups.iter_mut()))?;
    log.write_fence()
}
