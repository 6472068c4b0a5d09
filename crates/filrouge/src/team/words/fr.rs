//! French.

use super::Words;

pub(super) static WORDS: Words = Words {
    found_one: "Une session antérieure existe ({when}, {count}).",
    choose_one: "[R] Reprendre  [N] Nouvelle session",
    found_many: "{n} sessions antérieures existent :",
    choose_many: "[1-{n}] Reprendre celle-là  [R] Reprendre la plus récente  [N] Nouvelle session",
    in_file: "dans le fichier {file}",
    newer_file: "plus récente dans le fichier {file}",
    held: "ouverte ailleurs : {holder}",
    nothing_begun: "Rien n’a été commencé.",
    message_one: "{n} message",
    message_many: "{n} messages",
    just_now: "à l’instant",
    minute_one: "il y a {n} minute",
    minute_many: "il y a {n} minutes",
    today: "aujourd’hui {time}",
    yesterday: "hier {time}",
    on_day: "le {date} à {time}",
    began: "Équipe {team} : {members}. /help dit ce qu’on peut faire.",
    resumed: "Reprise : {when}, {count}.",
    earlier: "note : sessions antérieures de cette équipe : {n}, la dernière {when}, {count} ; --resume la reprend",
    drift: "Ne sont plus dans l’équipe : {names}. Leurs messages restent.",
    was_interrupted: "{id} a été interrompu quand filrouge s’est arrêté ; ce qui était dit est conservé.",
    thinking: "{name} réfléchit",
    cancelled: "annulé",
    failed: "échec",
    interrupted: "interrompu",
    said_nothing: "n’a rien dit",
    agent_failed: "{name} a échoué : {why}",
    unresolved: "Personne ici ne s’appelle {names}. Il y a : {members}.",
    malformed: "{n} morceaux de la sortie n’étaient pas en UTF-8.",
    agent_turns: "{n} messages d’agents se sont suivis : à vous la parole.",
    dropped: "Membres en attente retirés de la file : {n}.",
    task: "Tâche : {task}",
    no_task: "Il n’y a pas de tâche.",
    task_not_set: "La tâche n’a pas été fixée : {why}",
    not_kept: "La dernière entrée n’a pas pu être enregistrée : {why}",
    snapshot_not_written: "Le fichier instantané n’a pas été écrit : {why}",
    snapshot_not_read: "Un fichier instantané n’a pas été lu : {why}",
    stopping: "Arrêt en cours ; Ctrl-C encore une fois pour quitter.",
    leave_hint: "Ctrl-C encore une fois, ou Ctrl-D, pour quitter.",
    left: "Conservée : session {id}. Déployez l’équipe à nouveau pour continuer.",
    ended: "Terminée et conservée : session {id}.",
    unknown_command: "{command} n’existe pas. /help dit ce qu’il y a ; //… dit un message qui commence par une barre.",
    name_a_file: "Nommez un fichier d’équipe : /team deploy FICHIER",
    no_number: "{text} n’est pas un nombre.",
    no_words: "Dites ce qui est cherché : /search MOTS",
    human: "humain",
    agent: "agent",
    waiting: "En attente : {names}. Une ligne vide les laisse continuer.",
    no_messages: "Rien n’a encore été dit.",
    not_found: "Rien trouvé.",
    not_said: "Message non envoyé : {why}",
    help:
        "\
/task [TEXTE]         montrer la tâche de l’équipe, ou la fixer ; /task - l’enlève
/members              qui est dans l’équipe
/history [N]          les N derniers messages
/search MOTS          chercher dans les sessions de cette équipe
/pause                quitter ; la session continuera un autre jour
/end                  terminer la session
/team deploy FICHIER  quitter, et déployer une autre équipe
/help                 ceci
//…                   un message qui commence par une barre
[NEXT: nom] ou @nom dans un message dit qui parle ensuite. Ctrl-C arrête qui parle ; Ctrl-D quitte.",
};
