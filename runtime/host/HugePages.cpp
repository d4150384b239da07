// Huge pages for large new tensors. Where /sys/kernel/mm/transparent_hugepage
// says "madvise", the system gives them only to those who ask.
#include "altgrad/altgrad.h"

#include <sys/mman.h>
#include <unistd.h>

// Below this few of the pages would lie within the memory: they have 2 MiB.
static constexpr uint64_t least = uint64_t(4) << 20;

void altgrad_prefer_huge_pages(void *memory, uint64_t bytes) {
  if (bytes < least)
    return;
  // Whole pages, as madvise has them: what an allocator keeps beside the memory
  // in its first and last page stays what it is.
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t begin = reinterpret_cast<uint64_t>(memory) & -page;
  uint64_t end = (reinterpret_cast<uint64_t>(memory) + bytes + page - 1) & -page;
  // A hint: a system that has no such pages goes on with small ones.
  (void)madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
}
