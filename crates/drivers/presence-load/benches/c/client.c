/* The least that a driver of presence can cost: at each due time it sends a heartbeat of fixed bytes, and it reads what
 * comes without looking at it. It measures no latency and notices no error of the server.
 *
 *   cc -O2 -Wall -Wextra -o client client.c
 *   ./client PORT USERS RATE SECONDS
 *
 * PORT is of any server of the protocol on 127.0.0.1, or of server.c. USERS join in rooms of two. RATE is in heartbeats
 * per second of all users together; with 0 each user sends the next one when the last one is acknowledged, for which it
 * looks at the heads of the frames. At the end it prints the heartbeats per second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define HEAD 6 /* of a masked frame that is shorter than 126 bytes */

static char buffer[1 << 16];

static void fail(const char *action) {
    perror(action);
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

/* Sends a text frame. Its mask is zero, so its payload stands in it as it is. */
static void send_text(int connection, const char *text) {
    char frame[HEAD + 126] = {(char)0x81, (char)(0x80 | strlen(text))};
    memcpy(frame + HEAD, text, strlen(text));
    if (send(connection, frame, HEAD + strlen(text), MSG_NOSIGNAL) < 0)
        fail("send");
}

/* Reads until the text has come. */
static void await(int connection, const char *text) {
    size_t length = 0;
    while (!memmem(buffer, length, text, strlen(text))) {
        ssize_t more = recv(connection, buffer + length, sizeof buffer - length, 0);
        if (more <= 0)
            fail(text);
        length += (size_t)more;
    }
}

static int join(int port, int user) {
    static const char upgrade[] = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    send(connection, upgrade, sizeof upgrade - 1, MSG_NOSIGNAL);
    await(connection, "0{");
    send_text(connection, "40");
    await(connection, "40{");
    char text[126];
    snprintf(text, sizeof text, "420[\"presence:join\",{\"roomId\":\"room-%d\",\"userId\":\"user-%d\"}]", user / 2, user);
    send_text(connection, text);
    await(connection, "430[");
    return connection;
}

/* Sends a heartbeat that changes the state, so that both users of the room get an event. */
static void heartbeat(int connection, uint64_t number) {
    static const char *texts[] = {
        "420[\"presence:heartbeat\",{\"patchState\":{\"n\":10,\"t\":48004309286775,\"padding\":\"abcdefghi\"}}]",
        "420[\"presence:heartbeat\",{\"patchState\":{\"n\":11,\"t\":48004319286775,\"padding\":\"abcdefghi\"}}]",
    };
    send_text(connection, texts[number & 1]);
}

/* Returns true if one of the frames in the buffer is an acknowledgement. */
static int has_ack(ssize_t length) {
    const unsigned char *at = (unsigned char *)buffer, *end = at + length;
    while (at + 4 < end) {
        size_t head = at[1] == 126 ? 4 : 2;
        if (at[head] == '4' && at[head + 1] == '3')
            return 1;
        at += head + (head == 4 ? (size_t)at[2] << 8 | at[3] : at[1]);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: %s PORT USERS RATE SECONDS\n", *arguments);
        return 2;
    }
    int port = atoi(arguments[1]), users = atoi(arguments[2]);
    int64_t rate = atoll(arguments[3]), lasts = atoll(arguments[4]) * SECOND;
    int set = epoll_create1(0), *connections = calloc((size_t)users, sizeof(int));
    uint64_t *sent = calloc((size_t)users, sizeof *sent), total = 0;
    for (int user = 0; user < users; user++) {
        connections[user] = join(port, user);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = (uint32_t)user};
        epoll_ctl(set, EPOLL_CTL_ADD, connections[user], &event);
    }
    /* A timeout of epoll_pwait2 is set anew for each wait, which costs a virtual processor more than this. */
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct epoll_event expiry = {.events = EPOLLIN | EPOLLET, .data.u32 = UINT32_MAX};
    epoll_ctl(set, EPOLL_CTL_ADD, timer, &expiry);
    int64_t begin = now(), end = begin + lasts, time = begin, armed = 0;
    for (int user = 0; rate == 0 && user < users; user++, total++)
        heartbeat(connections[user], sent[user]++);
    while (time < end) {
        int64_t due = end;
        while (rate > 0 && (due = begin + (int64_t)total * SECOND / rate) <= time) {
            size_t user = total++ % (uint64_t)users;
            heartbeat(connections[user], sent[user]++);
        }
        if (armed != due) {
            struct itimerspec at = {.it_value = {due / SECOND, due % SECOND}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
            armed = due;
        }
        struct epoll_event events[1024];
        int ready = epoll_wait(set, events, 1024, -1);
        if (ready < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int index = 0; index < ready; index++) {
            uint32_t user = events[index].data.u32;
            if (user == UINT32_MAX)
                continue;
            ssize_t length = recv(connections[user], buffer, sizeof buffer, MSG_DONTWAIT);
            if (length == 0 || (length < 0 && errno != EAGAIN))
                fail("recv");
            if (rate == 0 && has_ack(length)) {
                heartbeat(connections[user], sent[user]++);
                total++;
            }
        }
        time = now();
    }
    printf("%.0f\n", (double)total * SECOND / (double)lasts);
}
