// Keeps the device's copy of a plan's tables up to date.
#include "cuda/CudaTables.h"
#include "Status.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::runtime;

static constexpr size_t tableAlignment = 256;

altgrad_status CudaTables::reserve(const Tables &tables) {
  size_t total = 0;
  for (int table = 0; table < tableCount; ++table) {
    offsets[table] = total;
    total += (tables.bytes(table) + tableAlignment - 1) / tableAlignment *
             tableAlignment;
  }
  if (total <= capacity)
    return ALTGRAD_OK;
  release(); // cuMemFree waits for the kernels that read the old tables
  total += total / 4;
  if (Result error = driver.cuMemAlloc(&device, total)) {
    device = 0;
    return driver.refuse(error, "memory for the tables of a plan");
  }
  for (Stage &stage : stages) {
    void *memory = nullptr;
    Result error = driver.cuMemHostAlloc(&memory, total, hostPortable);
    stage.memory = static_cast<char *>(error ? nullptr : memory);
    if (!error)
      error = driver.cuEventCreate(&stage.copied, eventWithoutTiming);
    if (error) {
      release();
      return driver.refuse(error, "pinned memory for the tables of a plan");
    }
  }
  capacity = total;
  return ALTGRAD_OK;
}

altgrad_status CudaTables::upload(const Tables &tables, CudaStream stream,
                                  unsigned &changed) {
  Stage &stage = stages[next];
  if (stage.inFlight)
    if (Result error = driver.cuEventSynchronize(stage.copied))
      return driver.refuse(error, "waiting for an upload");
  stage.inFlight = false;
  for (int table = 0; table < tableCount; ++table) {
    size_t bytes = tables.bytes(table);
    if (!(changed >> table & 1) || bytes == 0)
      continue;
    char *pinned = stage.memory + offsets[table];
    memcpy(pinned, tables.data(table), bytes);
    if (Result error =
            driver.cuMemcpyHtoDAsync(address(table), pinned, bytes, stream))
      return driver.refuse(error, "uploading the tables of a plan");
  }
  if (Result error = driver.cuEventRecord(stage.copied, stream))
    return driver.refuse(error, "uploading the tables of a plan");
  stage.inFlight = true;
  next = (next + 1) % stageCount;
  changed = 0;
  return ALTGRAD_OK;
}

void CudaTables::release() {
  if (device)
    driver.cuMemFree(device);
  for (Stage &stage : stages) {
    if (stage.memory)
      driver.cuMemFreeHost(stage.memory);
    if (stage.copied)
      driver.cuEventDestroy(stage.copied);
    stage = Stage();
  }
  device = 0;
  capacity = 0;
}
