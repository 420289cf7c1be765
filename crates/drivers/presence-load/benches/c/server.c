/* The least that a server of presence can cost: it receives a heartbeat once and sends twice, an event and the
 * acknowledgement to the sender and the event to the other user of the room, all of them fixed bytes. It understands
 * nothing, serves only client.c, and takes the connections of each two users that follow each other for a room.
 *
 *   cc -O2 -Wall -Wextra -o server server.c
 *   ./server PORT
 *
 * It prints the port, which the system chooses if it is 0, and ends with the process that started it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 65536
/* Of the handshake: the upgrade, the namespace and the join. */
#define STEPS 3
/* As long as the event and the acknowledgement of presence-daemon. */
#define EVENT 200
#define ACK 56

struct user {
    int connection;
    int answered; /* steps of the handshake */
};

static struct user users[CONNECTIONS];
static char buffer[1 << 16];
static char answer[EVENT + ACK] = {(char)0x81, 126, 0, (char)(EVENT - 4), '4', '2'};

static void fail(const char *action) {
    perror(action);
    exit(1);
}

/* Drops what has no room. The end of a connection is noticed by the next recv. */
static void write_once(int connection, const char *bytes, size_t length) {
    (void)!send(connection, bytes, length, MSG_NOSIGNAL);
}

static void shake_hands(struct user *user) {
    static const char *answers[STEPS] = {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x03" "0{}",
        "\x81\x04" "40{}",
        "\x81\x05" "430[]",
    };
    const char *next = answers[user->answered++];
    write_once(user->connection, next, strlen(next));
}

static void serve(unsigned index) {
    struct user *user = &users[index], *other = &users[index ^ 1];
    ssize_t length = recv(user->connection, buffer, sizeof buffer, 0);
    if (length < 0 && errno == EAGAIN)
        return;
    if (length <= 0) {
        close(user->connection);
        user->connection = -1;
    } else if (user->answered < STEPS) {
        shake_hands(user);
    } else {
        write_once(user->connection, answer, sizeof answer);
        if (other->answered == STEPS && other->connection >= 0)
            write_once(other->connection, answer, EVENT);
    }
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s PORT\n", *arguments);
        return 2;
    }
    memcpy(answer + EVENT, "\x81\x36" "430[", 6);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 1024) < 0)
        fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &(socklen_t){sizeof address});
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CONNECTIONS};
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (unsigned next = 0;;) {
        struct epoll_event events[1024];
        int ready = epoll_wait(set, events, 1024, -1);
        for (int index = 0; index < ready; index++) {
            if (events[index].data.u32 < CONNECTIONS) {
                serve(events[index].data.u32);
                continue;
            }
            int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (connection < 0 || next == CONNECTIONS)
                fail("accept");
            setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
            users[next] = (struct user){.connection = connection};
            event = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.u32 = next++};
            epoll_ctl(set, EPOLL_CTL_ADD, connection, &event);
        }
    }
}
