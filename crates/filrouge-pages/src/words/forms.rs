//! The texts about fields that cannot be accepted.

use filrouge_http::problem::Problem;
use filrouge_types::ErrorCode;

use crate::text::cut;

/// The maximum number of characters that are repeated of a value.
const VALUE_CHARS_MAX: usize = 80;

super::words! {
    /// The texts about fields of forms and searches that cannot be accepted.
    FormWords {
        no_form: "The request is not a submitted form.", "La requête n’est pas un formulaire envoyé.", "Die Anfrage ist kein abgeschicktes Formular.";
        too_large: "The form is too large, or was cut off. Maximum size in bytes:", "Le formulaire est trop grand, ou a été interrompu. Taille maximale en octets :", "Das Formular ist zu groß oder wurde abgeschnitten. Höchstgröße in Bytes:";
        unreadable: "A field of the form is missing, or has a value of another kind. Go back, load the page again, and fill it in once more.", "Un champ du formulaire manque, ou sa valeur est d’un autre type. Revenez en arrière, rechargez la page et remplissez-le de nouveau.", "Ein Feld des Formulars fehlt oder hat einen Wert anderer Art. Gehen Sie zurück, laden Sie die Seite neu und füllen Sie es noch einmal aus.";
        seqs: "not numbers and ranges of items, such as 4 7-9", "pas des numéros ou des plages d’éléments, comme 4 7-9", "keine Nummern und Bereiche von Einträgen wie 4 7-9";
        turn: "This is not the id of a turn.", "Ce n’est pas l’identifiant d’un tour.", "Das ist nicht die Kennung einer Runde.";
        one_target: "Choose either a turn or items.", "Choisissez soit un tour, soit des éléments.", "Wählen Sie entweder eine Runde oder Einträge.";
        seq: "not the number of an item, such as 12", "pas le numéro d’un élément, comme 12", "keine Nummer eines Eintrags wie 12";
        moment: "not a time, such as 7d, 2027-01-31 or 2027-01-31T09:00:00Z", "pas une date, comme 7d, 2027-01-31 ou 2027-01-31T09:00:00Z", "keine Zeit wie 7d, 2027-01-31 oder 2027-01-31T09:00:00Z";
        day: "not a day, such as 2027-01-31", "pas un jour, comme 2027-01-31", "kein Tag wie 2027-01-31";
        reversed: "The period ends before it begins.", "La période se termine avant de commencer.", "Der Zeitraum endet, bevor er beginnt.";
        too_long: "The period is too long. Maximum number of days:", "La période est trop longue. Nombre maximal de jours :", "Der Zeitraum ist zu lang. Höchstzahl von Tagen:";
        unknown: "not one of the choices", "ne fait pas partie des choix", "keine der Möglichkeiten";
        id: "not an id", "pas un identifiant", "keine Kennung";
        public_key: "not a public key", "pas une clé publique", "kein öffentlicher Schlüssel";
    }
}

/// A field that cannot be accepted: its label, its value, and what it is not.
pub(crate) fn refused(label: &str, value: &str, why: &str) -> Problem {
    let value = cut(value, VALUE_CHARS_MAX);
    Problem::new(ErrorCode::Invalid, format!("{label}: “{value}”: {why}"))
}
