// A shared object that is not a bundle.
int altgrad_nothing;
