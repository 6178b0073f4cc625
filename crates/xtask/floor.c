/* The floor of every process benchmark: a static program that reads standard input to its end. */
#include <unistd.h>

int main(void) {
    char buffer[4096];
    while (read(0, buffer, sizeof buffer) > 0) {
    }
    return 0;
}
