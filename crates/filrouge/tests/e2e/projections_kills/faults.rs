//! The faults, and their order.

use filrouge_testbed::Loss;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// A table of the published generation is dropped.
    DropTable,
    /// A column of the published generation gets another name.
    RenameColumn,
    /// The SQLite file is replaced by an older copy of it while no process runs.
    OlderFile,
    /// The connection to OpenSearch is lost in the middle of a bulk, with this data.
    Cut(Loss),
    /// OpenSearch does not answer until a call has failed.
    Hang,
    /// OpenSearch is killed, and starts again.
    KillOpenSearch,
    /// The index is replaced by an older copy of it while no process runs.
    OlderIndex,
    /// All indices of the projection are deleted.
    DeleteIndex,
    /// The index is replaced by another one with other fields, which only queries reach.
    ReplaceIndex,
    /// The index gets another field, and accepts any field.
    AddField,
    /// Weaviate is killed, and starts again.
    KillWeaviate,
    /// All collections of the projection are deleted.
    DeleteCollection,
    /// The collection gets another property.
    AddProperty,
}

/// Besides those that have priority.
const FAULTS_OF_TABLES: [Fault; 2] = [Fault::DropTable, Fault::RenameColumn];
const FAULTS_OF_OPENSEARCH: [Fault; 8] = [
    Fault::Cut(Loss::Request),
    Fault::Cut(Loss::Connection),
    Fault::Cut(Loss::FirstAnswer),
    Fault::Hang,
    Fault::OlderIndex,
    Fault::DeleteIndex,
    Fault::ReplaceIndex,
    Fault::AddField,
];
const FAULTS_OF_WEAVIATE: [Fault; 2] = [Fault::DeleteCollection, Fault::AddProperty];

/// All faults, the next one last: those that have priority come first, the others in a random order.
pub(super) fn shuffled(has_opensearch: bool, has_weaviate: bool, rng: &mut StdRng) -> Vec<Fault> {
    let (mut faults, mut first) = (FAULTS_OF_TABLES.to_vec(), vec![Fault::OlderFile]);
    if has_opensearch {
        faults.extend(FAULTS_OF_OPENSEARCH);
        first.push(Fault::KillOpenSearch);
    }
    if has_weaviate {
        faults.extend(FAULTS_OF_WEAVIATE);
        first.push(Fault::KillWeaviate);
    }
    faults.shuffle(rng);
    faults.extend(first);
    faults
}
