import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

/** Prints what does not depend on time. */
public class World {
    interface Shape { double area(); }
    record Circle(double r) implements Shape { public double area() { return Math.PI * r * r; } }
    record Square(double a) implements Shape { public double area() { return a * a; } }
    record Line() implements Shape { public double area() { return 0; } }

    static int[] nothing;

    /** Null pointers, divisions by zero and deep recursion are signals of the kernel first. */
    static int faults() {
        int caught = 0;
        for (int i = 0; i < 30000; i++) {
            try {
                if (i % 3 == 0) nothing[i] = 1;
                else if (i % 3 == 1) caught += 1 / (i % 1);
                else caught++;
            } catch (NullPointerException e) { caught += 2; } catch (ArithmeticException e) { caught += 3; }
        }
        return caught;
    }

    static int depth(int n) { return n + depth(n + 1); }

    static boolean overflows() {
        try { return depth(0) < 0; } catch (StackOverflowError e) { return true; }
    }

    static long garbage() {
        long sum = 0;
        List<byte[]> kept = new ArrayList<>();
        for (int i = 0; i < 60000; i++) {
            byte[] some = new byte[i % 4096];
            sum += some.length;
            if (i % 50 == 0) kept.add(some);
            if (kept.size() > 500) kept.clear();
        }
        return sum;
    }

    public static void main(String[] args) throws Exception {
        long hash = 0;
        for (int i = 0; i < 20_000_000; i++) hash = hash * 31 + (i ^ hash >>> 7);
        System.out.println("hash " + hash);
        Shape[] shapes = new Shape[3000];
        for (int i = 0; i < shapes.length; i++) shapes[i] = i % 3 == 0 ? new Circle(i) : i % 3 == 1 ? new Square(i) : new Line();
        double area = 0;
        for (int round = 0; round < 300; round++) for (Shape shape : shapes) area += shape.area();
        System.out.printf("area %.3e%n", area);
        System.out.println("faults " + faults() + " " + overflows());
        ExecutorService pool = Executors.newFixedThreadPool(4);
        AtomicLong total = new AtomicLong();
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < 8; i++) parts.add(pool.submit(() -> { long g = garbage(); total.addAndGet(g); return g; }));
        for (Future<Long> part : parts) part.get();
        pool.shutdown();
        System.out.println("garbage " + total + " " + pool.awaitTermination(10, TimeUnit.SECONDS));
        System.gc();
        System.out.println("stream " + IntStream.range(0, 2_000_000).parallel().mapToLong(i -> (long) i * i % 7).sum());
        Map<String, Integer> words = new TreeMap<>();
        for (int i = 0; i < 200_000; i++) words.merge("w" + i % 1000, 1, Integer::sum);
        System.out.println("words " + words.size() + " " + words.get("w999"));
        Object lock = new Object();
        int[] turns = {0};
        Thread[] threads = new Thread[4];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> { for (int i = 0; i < 20000; i++) synchronized (lock) { turns[0]++; } });
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println("turns " + turns[0]);
        Thread sleeper = new Thread(() -> { try { Thread.sleep(60000); } catch (InterruptedException e) { System.out.println("interrupted"); } });
        sleeper.start();
        sleeper.interrupt();
        sleeper.join();
        System.out.println(new ProcessBuilder("/bin/echo", "a process").inheritIO().start().waitFor());
        System.exit(3);
    }
}
