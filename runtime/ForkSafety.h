// Fork safety: locks of the whole process that a child of fork finds free, whoever
// held one when it was made.
#ifndef ALTGRAD_RUNTIME_FORKSAFETY_H
#define ALTGRAD_RUNTIME_FORKSAFETY_H

#include <mutex>
#include <pthread.h>

namespace altgrad::runtime {

// The lock of `Owner`, a type of one file. The thread that forks takes it and
// gives it back on both sides, so it is held for moments only. Never destroyed.
template <typename Owner> class ForkSafeLock {
public:
  static std::mutex &of() {
    static const int registered = pthread_atfork(take, giveBack, giveBack);
    (void)registered;
    return lock();
  }

private:
  static std::mutex &lock() {
    static std::mutex &only = *new std::mutex;
    return only;
  }
  static void take() { lock().lock(); }
  static void giveBack() { lock().unlock(); }
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_FORKSAFETY_H
