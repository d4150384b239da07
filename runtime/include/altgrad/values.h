// How a launch brings numbers to a GPU: beside the kernels of its phases (bundle.h) a module of
// CUDA code may have one of this name, for one block of ALTGRAD_BLOCK_THREADS threads.
//
// Its parameters are a pointer, a count of 8 bytes, and ALTGRAD_VALUES words of 8 bytes, 4 KB
// together. It stores the first `count` words where the pointer points to.
#ifndef ALTGRAD_VALUES_H
#define ALTGRAD_VALUES_H

#define ALTGRAD_VALUES_KERNEL "altgrad_values"

enum { ALTGRAD_VALUES = 510 };

#endif // ALTGRAD_VALUES_H
