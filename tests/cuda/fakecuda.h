// The CUDA driver for tests: what a test sets and sees, besides the cu*
// functions that cuGetProcAddress_v2 finds. README.md says how it behaves.
#ifndef ALTGRAD_TESTS_FAKECUDA_H
#define ALTGRAD_TESTS_FAKECUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKECUDA_API __attribute__((visibility("default")))

FAKECUDA_API int cuGetProcAddress_v2(const char *name, void **out, int version,
                                     uint64_t flags, int *found);

// Every object, count and fault is forgotten and the environment is read again.
FAKECUDA_API void fakecuda_reset(void);
// The same, but objects, memory and their owners stay.
FAKECUDA_API void fakecuda_forget(void);

// Names: devices capability processors occupancy registers driver memory seed
// eager host races caches clock, as in the environment (FAKE_CUDA_DEVICES and so
// on); besides these, to be read: alive launches overlapped instructions waits
// pending. -1: no such name.
FAKECUDA_API int fakecuda_set(const char *name, int64_t value);
FAKECUDA_API int64_t fakecuda_get(const char *name);

// The `nth` next call of a function (1: the next one) and `times` - 1 after it
// (-1: all) return `code`, without doing anything. Code 0 forgets what was said
// of the function; a null name, of all of them.
FAKECUDA_API void fakecuda_fail(const char *function, int code, int64_t nth,
                                int64_t times);
// cuGetProcAddress has success and NULL for it, as for what no driver has.
FAKECUDA_API void fakecuda_missing(const char *function);
// How the text of the next refused module begins; "" for the parser's words.
FAKECUDA_API void fakecuda_jit_log(const char *words);

// Calls of one function, or of all of them for a null name.
FAKECUDA_API int64_t fakecuda_calls(const char *function);
FAKECUDA_API void fakecuda_clear_calls(void);
// The functions that were called, by name; null past the end.
FAKECUDA_API const char *fakecuda_called(size_t index);
// The last fault's words, as on stderr; "" when there was none.
FAKECUDA_API const char *fakecuda_fault(void);

// Memory of this process that stands for memory of a device; -1: of all of
// them. 0 where it overlaps what is known, or is not known.
FAKECUDA_API int fakecuda_map(const void *address, uint64_t bytes);
FAKECUDA_API int fakecuda_map_device(const void *address, uint64_t bytes,
                                     int device);
FAKECUDA_API int fakecuda_unmap(const void *address);

// Does all the work that is queued.
FAKECUDA_API void fakecuda_drain(void);

// How often a primary context is retained.
FAKECUDA_API int64_t fakecuda_retained(int device);
// What cuDeviceGetName says.
FAKECUDA_API void fakecuda_name(const char *device);

// Loading an image with these words in it returns `code`, or asking what was
// loaded for a kernel does; 0 as usual.
FAKECUDA_API void fakecuda_refuse(const char *words, int code);
FAKECUDA_API void fakecuda_lack(const char *words, int code);
// What was given to cuModuleLoadDataEx, up to a zero: PTX, or a "cubin of " PTX
// as linking makes it. Null past the end.
FAKECUDA_API const char *fakecuda_image(size_t index);
FAKECUDA_API void fakecuda_clear_images(void);
// The PTX that was loaded or linked last.
FAKECUDA_API const char *fakecuda_ptx(void);

typedef struct fakecuda_launch {
  const char *kernel;
  uint32_t grid[3], block[3];
  void *stream; // as it was named in the call
  int device;
  const void *parameters; // laid out as the kernel's .param list
  uint64_t parameter_bytes;
} fakecuda_launch;

// What is loaded from now on is what `edit` makes of its PTX, for free(); null:
// the PTX itself.
FAKECUDA_API void fakecuda_edit(char *(*edit)(const char *ptx));

// The launches in the order of the calls, captured ones included; 0 past the
// end.
FAKECUDA_API int fakecuda_launch_at(size_t index, fakecuda_launch *out);
FAKECUDA_API void fakecuda_clear_launches(void);
// Called instead of the interpreter; null: the interpreter.
FAKECUDA_API void fakecuda_on_launch(void (*run)(const fakecuda_launch *));

#ifdef __cplusplus
}
#endif

#endif
