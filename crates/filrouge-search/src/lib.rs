//! Find anything anyone said (DESIGN §10): one query language and one shape of results over the ledger and over foreign
//! histories, answered from derived indexes where there are some and by looking through everything else.
