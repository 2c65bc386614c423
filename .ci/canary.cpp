// Three errors on purpose, one for each sanitizer: `make sanitize` believes a silent run only after it has heard these.
#include <climits>
#include <thread>

extern "C" int outside(int n) {
    int* one = new int[1]{};
    const int read = one[n];
    delete[] one;
    return read;
}

extern "C" int overflow(int n) { return INT_MAX - 1 + n; }

extern "C" int race(int n) {
    int shared = 0;
    const auto add = [&] {
        for (int k = 0; k < 1000 * n; ++k) shared += n;
    };
    std::thread other(add);
    add();
    other.join();
    return shared;
}
