// Keeps the device's copy of a plan's tables up to date.
#include "cuda/CudaTables.h"
#include "Status.h"
#include "altgrad/values.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::runtime;

static constexpr size_t tableAlignment = 256;

altgrad_status CudaTables::reserve(const Tables &tables, const SharedEvent &after) {
  offsets[0] = 0;
  for (int table = 0; table < tableCount; ++table)
    offsets[table + 1] = offsets[table] + (tables.bytes(table) + tableAlignment - 1) / tableAlignment * tableAlignment;
  // Kernels may still read the old ones, whose places have moved.
  giveBack(after);
  return gpu.acquire(offsets[tableCount], block);
}

// Copies a table, with addresses of mirrored values as the device has them.
void CudaTables::fill(const Tables &tables, int table, char *to) {
  if (size_t bytes = tables.bytes(table)) // an empty one is nowhere
    memcpy(to, tables.data(table), bytes);
  if (table != GroupTable && table != ScalarTable)
    return;
  auto *words = reinterpret_cast<uint64_t *>(to);
  for (size_t i = 0; i < tables.bytes(table) / 8; ++i)
    if (tables.isMirrored(words[i]))
      words[i] += address(ValueTable) - uint64_t(tables.values);
}

altgrad_status CudaTables::findRoom(size_t bytes, size_t &begin) {
  if (nextByte + bytes > block.pinnedBytes)
    nextByte = 0;
  begin = nextByte;
  auto meets = [&](const Flight &flight) { return flight.begin < begin + bytes && begin < flight.end; };
  while (flights.size() >= size_t(Block::eventCount) || std::any_of(flights.begin(), flights.end(), meets))
    if (altgrad_status status = waitForOldest())
      return status;
  return ALTGRAD_OK;
}

// Another thread may be capturing, which a query or a wait would spoil.
altgrad_status CudaTables::waitForOldest() {
  RelaxedCapture relaxed(gpu.driver);
  Event oldest = flights.front().event;
  if (gpu.driver.cuEventQuery(oldest) != 0)
    if (Result error = gpu.driver.cuEventSynchronize(oldest))
      return gpu.driver.refuse(error, "waiting for an upload");
  flights.pop_front();
  return ALTGRAD_OK;
}

altgrad_status CudaTables::wait() {
  while (!flights.empty())
    if (altgrad_status status = waitForOldest())
      return status;
  return ALTGRAD_OK;
}

altgrad_status CudaTables::launchValues(const Tables &tables, CudaStream stream, Function kernel) {
  uint64_t words[ALTGRAD_VALUES] = {};
  memcpy(words, tables.values, tables.valueBytes);
  DevicePointer to = address(ValueTable);
  int64_t count = int64_t(tables.valueBytes + 7) / 8;
  void *parameters[] = {&to, &count, words};
  if (Result error =
          gpu.driver.cuLaunchKernel(kernel, 1, 1, 1, ALTGRAD_BLOCK_THREADS, 1, 1, 0, stream, parameters, nullptr))
    return gpu.driver.refuse(error, "bringing numbers to the device");
  return ALTGRAD_OK;
}

altgrad_status CudaTables::copy(const Tables &tables, CudaStream stream, int first, int last) {
  size_t begin = 0, bytes = offsets[last - 1] + tables.bytes(last - 1) - offsets[first];
  if (altgrad_status status = findRoom(bytes, begin))
    return status;
  char *pinned = block.pinned + begin;
  for (int table = first; table < last; ++table)
    fill(tables, table, pinned + offsets[table] - offsets[first]);
  Result error = gpu.driver.cuMemcpyHtoDAsync(address(first), pinned, bytes, stream);
  Event event = block.events[nextEvent];
  if (!error)
    error = gpu.driver.cuEventRecord(event, stream);
  if (error)
    return gpu.driver.refuse(error, "uploading the tables of a plan");
  flights.push_back({begin, begin + bytes, event});
  nextByte = begin + bytes;
  nextEvent = (nextEvent + 1) % size_t(Block::eventCount);
  return ALTGRAD_OK;
}

altgrad_status CudaTables::upload(const Tables &tables, CudaStream stream, unsigned &changed, Function kernel) {
  const char *values = static_cast<const char *>(tables.values);
  if (tables.valueBytes && (sent.size() != tables.valueBytes || memcmp(sent.data(), values, sent.size()) != 0))
    changed |= 1u << ValueTable;
  int first = 0, last = tableCount;
  auto differs = [&](int table) { return (changed >> table & 1) && tables.bytes(table) > 0; };
  while (first < last && !differs(first))
    ++first;
  while (first < last && !differs(last - 1))
    --last;
  if (first == last)
    return ALTGRAD_OK;
  bool launches = kernel && first == ValueTable && last == first + 1 && tables.valueBytes <= ALTGRAD_VALUES * 8;
  if (altgrad_status status = launches ? launchValues(tables, stream, kernel) : copy(tables, stream, first, last))
    return status;
  sent.assign(values, values + tables.valueBytes);
  changed = 0;
  return ALTGRAD_OK;
}

bool CudaTables::hold(const Tables &tables) {
  std::vector<char> now;
  for (int table = 0; table < tableCount; ++table) {
    now.resize(tables.bytes(table));
    if (now.size() > offsets[table + 1] - offsets[table])
      return false;
    fill(tables, table, now.data());
    if (memcmp(now.data(), block.pinned + offsets[table], now.size()) != 0)
      return false;
  }
  return true;
}

void CudaTables::giveBack(const SharedEvent &after) {
  gpu.giveBack(block, after);
  block = Block();
  flights.clear();
  sent.clear();
  nextByte = nextEvent = 0;
}
