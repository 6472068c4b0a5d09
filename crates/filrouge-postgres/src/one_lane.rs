//! The form of statements in a distributed store. In other stores one statement may cover several lanes, which it
//! gets as an array in `$1`; the other columns of its rows are arrays too. A distributed store refuses this. There
//! the statement is run for each lane: the lane is the parameter `$1`, and new rows are a `VALUES` list
//! (docs/scaling.md).

use tokio_postgres::types::{Kind, Type};

/// The beginning of the rows of an insertion.
const INSERTED_ARRAYS: &str = "SELECT * FROM unnest(";

/// Whether a statement inserts rows that it gets as arrays.
pub(crate) fn is_insertion(text: &str) -> bool {
    text.contains(INSERTED_ARRAYS)
}

/// Returns the text for one lane. `rows` is the number of rows of an insertion.
pub(crate) fn text_in_one_lane(text: &str, rows: usize) -> String {
    let insertion = text.split_once(INSERTED_ARRAYS);
    let insertion = insertion.and_then(|(into, rest)| Some((into, rest.split_once(')')?)));
    if let Some((into, (parameters, on_conflict))) = insertion {
        let columns = parameters.split(',').count();
        let row = |row: usize| {
            let parameters = (1..=columns).map(|column| format!("${}", row * columns + column));
            format!("({})", parameters.collect::<Vec<_>>().join(", "))
        };
        let values: Vec<String> = (0..rows).map(row).collect();
        return format!("{into}VALUES {}{on_conflict}", values.join(", "));
    }
    text.replace("unnest($1) AS q (lane)", "(SELECT 1) AS q")
        .replace("unnest($1, ", "unnest(")
        .replace(" AS q (lane, ", " AS q (")
        .replace("q.lane", "$1")
        .replace("= ANY (ARRAY[$1])", "= $1")
        .replace("lane = ANY($1) ORDER BY lane", "lane = $1")
}

/// Returns the types of the parameters of [`text_in_one_lane`].
pub(crate) fn types_in_one_lane(text: &str, types: &[Type], rows: usize) -> Vec<Type> {
    let element = |array: &Type| match array.kind() {
        Kind::Array(element) => element.clone(),
        _ => array.clone(),
    };
    if is_insertion(text) {
        return (0..rows).flat_map(|_| types.iter().map(element)).collect();
    }
    let (first, others) = (types.iter().take(1), types.iter().skip(1));
    first.map(element).chain(others.cloned()).collect()
}

/// Whether a statement covers several lanes: its first parameter is an array of lanes.
pub(crate) fn covers_several_lanes(types: &[Type]) -> bool {
    types.first() == Some(&Type::INT2_ARRAY)
}
