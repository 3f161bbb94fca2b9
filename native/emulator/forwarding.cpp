// A library of CANN that exports nothing itself: what is looked up in it is found in the libraries it depends
// on.
