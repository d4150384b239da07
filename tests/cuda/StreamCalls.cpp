// Streams, events and copies.
#include "Fake.h"

#include <algorithm>
#include <cstring>

using namespace fakecuda;

namespace {

Result createStream(void **out, unsigned flags, Context &context) {
  if (flags > 1)
    return InvalidValue;
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->blocking = flags == 0;
  state().allStreams.push_back(stream);
  *out = stream.get();
  state().streams[*out] = stream;
  return 0;
}

// A captured stream cannot be waited for, and is spoiled by who tries.
Result checkWaitable(Stream &stream) {
  if (!stream.capture)
    return checkImplicit(stream);
  invalidate(*stream.capture);
  return CaptureUnsupported;
}

Result checkCaptured(const Event &event) {
  if (!event.capture)
    return 0;
  if (!event.capture->ended)
    invalidate(*event.capture);
  return CapturedEvent;
}

Result record(void *handle, void *streamHandle, unsigned flags,
              Context *context) {
  auto event = look(state().events, handle);
  Stream *stream = streamOf(streamHandle, context);
  if (!event || !stream || event->context != stream->context)
    return InvalidHandle;
  if (flags > 1 || (flags && !stream->capture))
    return InvalidValue;
  if (stream->context->sticky)
    return stream->context->sticky;
  if (flags) {
    Work work;
    work.record = event;
    return submit(*stream, std::move(work));
  }
  if (Result error = checkImplicit(*stream))
    return error;
  if (stream->capture) {
    if (stream->capture->invalid)
      return CaptureInvalidated;
    event->capture = stream->capture;
    event->heads = stream->heads;
    return 0;
  }
  event->capture = nullptr;
  event->mark = enqueue(*stream, Task());
  return 0;
}

// A wait on what a capture has recorded: the stream joins it.
Result join(Stream &stream, const Event &event) {
  Capture &capture = *event.capture;
  if (capture.ended)
    return CapturedEvent;
  if (capture.invalid)
    return CaptureInvalidated;
  if (&stream == stream.context->legacy.get()) {
    invalidate(capture);
    return CaptureImplicit;
  }
  if (stream.capture && stream.capture != event.capture) {
    invalidate(capture);
    invalidate(*stream.capture);
    return CaptureMerge;
  }
  stream.capture = event.capture;
  stream.heads.insert(event.heads.begin(), event.heads.end());
  return 0;
}

// Who reads and who writes: TheHost or, because all devices share one address
// space, AnyDevice.
Result copy(uint64_t to, int writer, uint64_t from, int reader, size_t bytes,
            Stream &stream) {
  auto check = [=](std::string &why) {
    return mayTouch(to, bytes, writer, why) &&
           mayTouch(from, bytes, reader, why);
  };
  std::string why;
  if (!bytes)
    return 0;
  if (!check(why)) {
    fprintf(stderr, "fakecuda: a copy that cannot be: %s\n", why.c_str());
    return InvalidValue;
  }
  auto run = [=]() -> Result {
    std::string reason;
    if (!check(reason))
      return fault(IllegalAddress, "copy: " + reason);
    return copyBytes(to, from, bytes);
  };
  bool pageable = (reader == TheHost && !isPinned(from, bytes)) ||
                  (writer == TheHost && !isPinned(to, bytes));
  if (!pageable)
    return submit(stream, {run, nullptr, nullptr});
  // The driver waits for its staging buffer: what is called asynchronous isn't.
  ++state().calls["pageable copy"];
  if (Result error = checkWaitable(stream))
    return error;
  if (Result error = submit(stream, {run, nullptr, nullptr}))
    return error;
  waitForStream(stream);
  return stream.context->sticky;
}

} // namespace

CU(cuStreamCreate, 2000, void **out, unsigned flags) {
  ENTER(Init | Current)
  return createStream(out, flags, *call.context);
}

CU(cuStreamCreateWithPriority, 5050, void **out, unsigned flags, int) {
  ENTER(Init | Current)
  return createStream(out, flags, *call.context);
}

CU(cuStreamDestroy, 4000, void *handle) {
  ENTER(Init | Current)
  auto stream = look(state().streams, handle);
  if (!stream)
    return InvalidHandle;
  if (stream->capture)
    invalidate(*stream->capture);
  state().streams.erase(handle); // what is queued is still done
  return 0;
}

CU(cuStreamSynchronize, 2000, void *handle) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  if (!stream)
    return InvalidHandle;
  if (Result error = checkWaitable(*stream))
    return error;
  if (Result error = checkSafe())
    return error;
  waitForStream(*stream);
  return stream->context->sticky;
}

CU(cuStreamQuery, 2000, void *handle) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  if (!stream)
    return InvalidHandle;
  if (Result error = checkWaitable(*stream))
    return error;
  return stream->tasks.empty() ? stream->context->sticky : NotReady;
}

CU(cuStreamWaitEvent, 3020, void *handle, void *eventHandle, unsigned flags) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  auto event = look(state().events, eventHandle);
  if (!stream || !event)
    return InvalidHandle;
  if (flags > 1 || (flags && !stream->capture))
    return InvalidValue;
  if (flags) {
    if (Result error = checkCaptured(*event))
      return error;
    Work work;
    work.wait = event;
    return submit(*stream, std::move(work));
  }
  if (event->capture)
    return join(*stream, *event);
  if (Result error = checkImplicit(*stream))
    return error;
  if (stream->capture) {
    if (stream->capture->invalid)
      return CaptureInvalidated;
    invalidate(*stream->capture);
    return CaptureIsolation;
  }
  if (stream->context->sticky)
    return stream->context->sticky;
  Task task;
  if (event->mark && !event->mark->done)
    task.after.push_back(event->mark);
  enqueue(*stream, std::move(task));
  return 0;
}

CU(cuEventCreate, 2000, void **out, unsigned flags) {
  ENTER(Init | Current)
  auto event = std::make_shared<Event>();
  event->context = call.context;
  event->timed = !(flags & 2); // CU_EVENT_DISABLE_TIMING
  *out = event.get();
  state().events[*out] = event;
  return 0;
}

CU(cuEventDestroy, 4000, void *handle) {
  ENTER(Init | Current)
  auto event = look(state().events, handle);
  if (!event)
    return InvalidHandle;
  event->destroyed = true;
  state().events.erase(handle);
  return 0;
}

CU(cuEventRecord, 2000, void *handle, void *stream) {
  ENTER(Init | Current)
  return record(handle, stream, 0, call.context);
}

CU(cuEventRecordWithFlags, 11010, void *handle, void *stream, unsigned flags) {
  ENTER(Init | Current)
  return record(handle, stream, flags, call.context);
}

CU(cuEventQuery, 2000, void *handle) {
  ENTER(Init | Current | Safe)
  auto event = look(state().events, handle);
  if (!event)
    return InvalidHandle;
  if (Result error = checkCaptured(*event))
    return error;
  bool done = !event->mark || event->mark->done;
  return done ? event->context->sticky : NotReady;
}

CU(cuEventSynchronize, 2000, void *handle) {
  ENTER(Init | Current | Safe)
  auto event = look(state().events, handle);
  if (!event)
    return InvalidHandle;
  if (Result error = checkCaptured(*event))
    return error;
  waitFor(event->mark);
  return event->context->sticky;
}

CU(cuEventElapsedTime, 2000, float *out, void *first, void *last) {
  ENTER(Init | Current | Safe)
  auto from = look(state().events, first), to = look(state().events, last);
  if (!from || !to || !from->timed || !to->timed || !from->mark || !to->mark)
    return InvalidHandle;
  if (!from->mark->done || !to->mark->done)
    return NotReady;
  *out = float(to->mark->at - from->mark->at) / 1000;
  return from->context->sticky;
}

#define ALTGRAD_COPY(name, since, To, From, writer, reader)                    \
  CU(name, since, To to, From from, size_t bytes, void *handle) {              \
    ENTER(Init | Current)                                                      \
    Stream *stream = streamOf(handle, call.context);                           \
    return stream ? copy(uint64_t(to), writer, uint64_t(from), reader, bytes,  \
                         *stream)                                              \
                  : InvalidHandle;                                             \
  }
ALTGRAD_COPY(cuMemcpyHtoDAsync, 3020, uint64_t, const void *, AnyDevice,
             TheHost)
ALTGRAD_COPY(cuMemcpyDtoHAsync, 3020, void *, uint64_t, TheHost, AnyDevice)
ALTGRAD_COPY(cuMemcpyDtoDAsync, 3020, uint64_t, uint64_t, AnyDevice, AnyDevice)
ALTGRAD_COPY(cuMemcpyAsync, 4000, uint64_t, uint64_t, sideOf(to), sideOf(from))
#undef ALTGRAD_COPY

CU(cuMemcpyPeerAsync, 4000, uint64_t to, void *, uint64_t from, void *,
   size_t bytes, void *handle) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  return stream ? copy(to, AnyDevice, from, AnyDevice, bytes, *stream)
                : InvalidHandle;
}

// The plain copies are the legacy stream's, and wait.
#define ALTGRAD_COPY(name, To, From, writer, reader)                           \
  CU(name, 3020, To to, From from, size_t bytes) {                             \
    ENTER(Init | Current | Safe)                                               \
    Stream &stream = *call.context->legacy;                                    \
    Result error =                                                             \
        copy(uint64_t(to), writer, uint64_t(from), reader, bytes, stream);     \
    if (!error)                                                                \
      waitForStream(stream);                                                   \
    return error ? error : call.context->sticky;                               \
  }
ALTGRAD_COPY(cuMemcpyHtoD, uint64_t, const void *, AnyDevice, TheHost)
ALTGRAD_COPY(cuMemcpyDtoH, void *, uint64_t, TheHost, AnyDevice)
ALTGRAD_COPY(cuMemcpyDtoD, uint64_t, uint64_t, AnyDevice, AnyDevice)
#undef ALTGRAD_COPY

static Result setAll(uint64_t to, const void *element, size_t size,
                     size_t count, Stream *stream) {
  if (!stream)
    return InvalidHandle;
  int device = stream->context->device;
  std::string why, bytes;
  for (size_t i = 0; i < count; ++i)
    bytes.append(static_cast<const char *>(element), size);
  if (bytes.empty())
    return 0;
  if (!mayTouch(to, bytes.size(), device, why))
    return InvalidValue;
  return submit(*stream, {[=]() -> Result {
                            std::string reason;
                            if (!mayTouch(to, bytes.size(), device, reason))
                              return fault(IllegalAddress, "memset: " + reason);
                            return copyBytes(to, uint64_t(bytes.data()), bytes.size());
                          },
                          nullptr, nullptr});
}

CU(cuMemsetD8Async, 3020, uint64_t to, unsigned char value, size_t count,
   void *handle) {
  ENTER(Init | Current)
  return setAll(to, &value, 1, count, streamOf(handle, call.context));
}

CU(cuMemsetD32Async, 3020, uint64_t to, unsigned value, size_t count,
   void *handle) {
  ENTER(Init | Current)
  return setAll(to, &value, 4, count, streamOf(handle, call.context));
}
