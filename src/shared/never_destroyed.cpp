// What a shared object of lathe makes is not destroyed when the process exits: other threads may still run or
// compile then, and the destructors of a user's globals may use lathe. Each shared object has this function
// to itself (it is hidden), so that its own objects and those of the libraries inside it come here, and no
// others.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*);

extern "C" int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
