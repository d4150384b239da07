/* The C interface of the PTX interpreter, for ctypes and C++ tests.
 *
 * A call that fails returns 0 or a null pointer and leaves a sentence in
 * ptx_error(). Not for several threads at once. */
#ifndef ALTGRAD_TESTS_PTX_PTXINTERP_H
#define ALTGRAD_TESTS_PTX_PTXINTERP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptx_vm ptx_vm;

/* Flags of a region. */
enum {
  PTX_READ_ONLY = 1,     /* a store is a fault */
  PTX_UNINITIALISED = 2, /* a byte must be written before it is read */
  PTX_NO_RACES = 4       /* do not track who touches it */
};

/* Order in which blocks run. */
enum { PTX_FORWARD = 0, PTX_BACKWARD = 1, PTX_SHUFFLED = 2 };

typedef struct {
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t resident_blocks; /* 0: 1; more take turns, for kernels that spin */
  const void *parameters;   /* laid out as the kernel's .param list */
  uint64_t parameter_bytes;
  uint64_t first_block, last_block; /* [first, last); 0, 0: all */
  uint64_t step_limit;              /* 0: 2^32 thread-instructions */
  uint32_t order;
  uint32_t skip_race_check;
  uint64_t seed; /* of PTX_SHUFFLED */
  uint64_t perturbation; /* draws errors of .approx; 0: rounded correctly */
  /* 1: a dependent launch. Each thread executes griddepcontrol.wait before it
   * exits or touches memory that is not PTX_READ_ONLY. */
  uint32_t follows;
} ptx_launch_options;

/* A module from text; null when it is refused: "line 7: ...". */
ptx_vm *ptx_create(const char *text);
void ptx_destroy(ptx_vm *vm);

/* Why the last failing call of this thread failed. */
const char *ptx_error(void);

/* Puts a host buffer at a simulated global address; the two may be equal. The
 * buffer must outlive the mapping. */
int ptx_map(ptx_vm *vm, uint64_t address, void *host, uint64_t bytes,
            unsigned flags);
/* The same without a buffer: pages appear when touched, and read as zero
 * unless PTX_UNINITIALISED. For 2^33 elements. */
int ptx_reserve(ptx_vm *vm, uint64_t address, uint64_t bytes, unsigned flags);
int ptx_unmap(ptx_vm *vm, uint64_t address);
/* Host access to any mapped or reserved range. */
int ptx_write(ptx_vm *vm, uint64_t address, const void *from, uint64_t bytes);
int ptx_read(ptx_vm *vm, uint64_t address, void *to, uint64_t bytes);

/* 1 when the launch ended without a fault. Else ptx_error() is
 * "line N: KIND: ...", ptx_fault_kind() the KIND and ptx_fault_line() N. */
int ptx_launch(ptx_vm *vm, const char *kernel,
               const ptx_launch_options *options);
const char *ptx_fault_kind(const ptx_vm *vm);
unsigned ptx_fault_line(const ptx_vm *vm);
/* Thread-instructions of the last launch. */
uint64_t ptx_steps(const ptx_vm *vm);

/* What a module holds: kernels and the forms they use; null past the end. */
const char *ptx_kernel_name(const ptx_vm *vm, size_t index);
int64_t ptx_parameter_bytes(const ptx_vm *vm, const char *kernel);
const char *ptx_module_form(const ptx_vm *vm, size_t index);
/* All forms the interpreter knows; null past the end. */
const char *ptx_known_form(size_t index);

#ifdef __cplusplus
}
#endif

#endif
